# Writes for ever.
exec yes '{"configuration":{"identity":"x"}}'
