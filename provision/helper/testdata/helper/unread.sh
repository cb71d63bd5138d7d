# Answers without reading its input.
exec 0<&-
printf '{"msg":"did not read"}'
