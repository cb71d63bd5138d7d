# Dies, without a word about it, in the middle of its answer.
printf '{"configuration":{\n  "identity":"x",\n  "plugin.choria'
