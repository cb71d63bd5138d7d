# Answers and ends, but leaves a process behind that holds every pipe.
sleep 600 &
echo $! >"$1"
printf '{"msg":"answered"}'
