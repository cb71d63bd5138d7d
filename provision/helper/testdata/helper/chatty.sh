# Talks a lot on stderr before it fails.
i=0
while [ $i -lt 2000 ]; do echo "line $i of a long story" >&2; i=$((i + 1)); done
exit 1
