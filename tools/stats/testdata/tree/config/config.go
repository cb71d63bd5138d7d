// Package config shows secrets.
package config

// Secret is shown as asterisks.
type Secret string

// String hides the secret.
func (Secret) String() string { return "****" }

// Run has a name that two other packages declare.
func (Secret) Run() {}

func (s Secret) text() string { return "not **** alone" }
