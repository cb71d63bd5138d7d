# Takes no notice of the polite signal, and neither does its child.
trap '' TERM
echo $$ >"$1"
sleep 600 &
wait
sleep 600
