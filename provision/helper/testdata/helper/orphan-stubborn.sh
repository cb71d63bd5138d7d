# Leaves a process behind that holds every pipe and ignores the polite signal.
(trap '' TERM; sleep 600 & wait; sleep 600) &
echo $! >"$1"
printf '{"msg":"answered"}'
