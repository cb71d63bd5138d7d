# Fails, and leaves two behind that hold every pipe: one in its group, one that
# has a session of its own by the time its process id is known.
exec 3>&1 4<&0
sleep 600 &
member=$!
daemon=$(setsid sh -c 'echo $$; exec sleep 600 >&3 <&4' &)
echo "$daemon" >"$2"
echo "$member" >"$1"
exit 3
