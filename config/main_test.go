package config_test

import (
	"os"
	"testing"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

func TestMain(m *testing.M) {
	config.SetTestKeys(trust.Keys())
	os.Exit(m.Run())
}
