# Tidies up when it is asked to end. A shell does so only after its child ended.
trap 'echo done >"$2"; exit 0' TERM
echo $$ >"$1"
sleep 600
