# Tells what its stdin, stdout and stderr are, and their flags.
read -r _
told=$(for fd in 0 1 2; do
	printf '%s ' "$(readlink "/proc/$$/fd/$fd")" "$(sed -n 's/^flags:[[:space:]]*//p' "/proc/$$/fdinfo/$fd")"
done)
printf '{"identity":"","msg":"%s"}\n' "$told"
cat >/dev/null
