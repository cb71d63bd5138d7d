# Ends by a signal, after a good-looking answer.
printf '{"configuration":{"identity":"x"}}'
kill -KILL $$
