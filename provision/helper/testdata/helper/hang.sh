# Never answers.
exec sleep 600
