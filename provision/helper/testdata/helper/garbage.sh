# Mixes its log into its answer.
echo 'INFO: looking up the node'
echo '{"configuration":{"identity":"x"}}'
