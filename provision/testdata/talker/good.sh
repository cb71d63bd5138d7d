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
	twice) printf '{"msg":"one"}\n{"msg":"two"}\n'; continue ;;
	other) printf '{"identity":"n9","msg":"wrong"}\n'; continue ;;
	endless) yes x | tr -d '\n' ;;
	esac
	printf '{"msg":"%s %s %s %s"}\n' "$$" "$n" "$id" "${PROVISION_DRY_RUN:-}"
done
