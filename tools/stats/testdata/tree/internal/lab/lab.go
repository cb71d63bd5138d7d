// Package lab is no part of what runs in production.
package lab

const mask = "****"

func start() {}
