# Answers n1, and once it is told to, writes an answer about n2 before it is asked.
while read -r line; do
	case $line in
	'{"identity":"n1"'*)
		echo '{"identity":"n1","msg":"asked"}'
		cat "$1" >/dev/null
		echo '{"identity":"n2","msg":"ahead"}'
		echo $$ >"$2"
		;;
	*) echo '{"identity":"n2","msg":"asked"}' ;;
	esac
done
