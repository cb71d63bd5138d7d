package config

// testKeys are the readers of key files that a run uses. TestMain sets them from
// outside this package, which package trust imports.
var testKeys Keys

// SetTestKeys is called once, before any test.
func SetTestKeys(keys Keys) { testKeys = keys }
