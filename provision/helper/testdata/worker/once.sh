# Answers once, at the least cost a shell can have.
read -r _
echo '{"identity":"n1.example.net","msg":"once"}'
