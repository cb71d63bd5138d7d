# Fails only after its answer has ended.
printf '{"configuration":{"identity":"x"}}'
exec >&-
sleep 0.1
exit 4
