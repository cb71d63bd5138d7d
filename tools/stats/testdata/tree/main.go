package main

import "example.net/tree/commands"

func main() { commands.Run() }
