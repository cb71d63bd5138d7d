package commands

const wait = 1
