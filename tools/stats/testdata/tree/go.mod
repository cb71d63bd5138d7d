module example.net/tree

go 1.26.0
