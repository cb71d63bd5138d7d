# Writes as much as it reads, while it reads.
printf '{"msg":"'
tr -d '"\\{}[]:,\n' | tr -c 'a-zA-Z0-9' 'x'
printf '"}'
