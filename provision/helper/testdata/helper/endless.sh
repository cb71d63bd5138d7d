# Writes for ever, and stays when nobody reads any more.
yes '{"configuration":{"identity":"x"}}'
exec sleep 600
