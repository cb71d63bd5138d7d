# Speaks before it was asked and does not read.
echo '{"msg":"early"}'
sleep 600
