# Fails, after a good-looking answer.
printf '{"configuration":{"identity":"x"}}'
echo "could not reach the certificate authority" >&2
exit 3
