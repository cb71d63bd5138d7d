# Never answers.
echo "waiting for the inventory database" >&2
exec sleep 600
