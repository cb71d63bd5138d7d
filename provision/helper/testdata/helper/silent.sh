# Reads its input, says nothing and is content with that.
cat >/dev/null
echo "no such site" >&2
