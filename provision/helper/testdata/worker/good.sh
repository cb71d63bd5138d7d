# Answers line by line, and tells which process it is and how often it was asked.
n=0
while read -r line; do
	n=$((n + 1))
	id=${line#'{"identity":"'}
	id=${id%%'"'*}
	case $id in
	die) echo "out of memory" >&2; exit 7 ;;
	half) printf '{"msg": "unfini'; exit 0 ;;
	hang) echo "waiting for the database" >&2; sleep 600 & wait ;;
	garbage) echo "INFO: looking"; continue ;;
	twice) printf '{"identity":"twice","msg":"one"}\n{"identity":"twice","msg":"two"}\n'; continue ;;
	other) printf '{"identity":"n9","msg":"wrong"}\n'; continue ;;
	nameless) printf '{"msg":"mine, or so it seems"}\n'; continue ;;
	nobody) printf '{"identity":null}\n'; continue ;;
	number) printf '{"identity":12}\n'; continue ;;
	endless) yes x | tr -d '\n' ;;
	esac
	printf '\357\273\277{"Identity":"%s","msg":"%s %s %s %s"}\n' "$id" "$$" "$n" "$id" "${PROVISION_DRY_RUN:-}"
done
