# Tidies up when it is asked to end. A shell does so only after its child ended:
# it is the child that tells the shell's process id, so that no signal comes
# before there is a child to end.
trap 'echo done >"$2"; exit 0' TERM
sh -c 'echo $PPID >"$1"; exec sleep 600' sh "$1"
