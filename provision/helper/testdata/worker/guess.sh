# Knows the answer without reading the question.
echo '{"identity":"n1","msg":"guess"}'
sleep 600
