# Answers for the node it was asked about, and says what it saw on stderr.
input=$(cat)
echo "dry run: $PROVISION_DRY_RUN" >&2
identity=$(printf '%s' "$input" | sed 's/.*"identity":"\([^"]*\)".*/\1/')
printf '{"msg":"saw %s","configuration":{"identity":"%s"}}' "$PROVISION_DRY_RUN" "$identity"
