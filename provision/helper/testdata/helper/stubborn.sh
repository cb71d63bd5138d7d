# Takes no notice of the polite signal, and neither does its child.
trap '' TERM
echo "waiting for the inventory database" >&2
echo $$ >"$1"
sleep 600 &
wait
sleep 600
