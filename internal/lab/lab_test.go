package lab

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	RunIfChild()
	if dir := os.Getenv(peerVariable); dir != "" {
		if err := runAsPeer(dir, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func startLab(t *testing.T, o Options) *Lab {
	t.Helper()
	l, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestProvisionedServersAreInService(t *testing.T) {
	for _, enrollment := range []string{Insecure, PKI, Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, Options{Nodes: 2, Enrollment: enrollment})
			provisionNodes(t, l, l.NodeNames()...)
			findings, err := l.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.State != InService {
					t.Errorf("got %+v, want it in service", f)
				}
				t.Logf("%+v", f)
			}
		})
	}
}
