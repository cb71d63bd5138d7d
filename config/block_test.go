package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The line end of a block text is YAML's, not the operator's: as part of the
// site it would make every node another installation's, as part of a pattern it
// would deny nothing.
func TestLineEndOfABlockTextIsNotPartOfIt(t *testing.T) {
	t.Parallel()
	for _, block := range []string{"|", ">", "|+", "|-"} {
		text := "helper: " + block + "\n  DIR/helper\ntoken: " + block + "\n  s3cret\nsite: " + block + "\n  ams\n\nfeatures: {pki: true}\ncert_deny_list:\n- " + block + "\n  ^vault$\n" +
			"pushgateway:\n  url: http://localhost:9091\n  grouping:\n    zone: " + block + "\n      one\n  headers:\n    X-Auth: " + block + "\n      abc\n"
		cfg, warnings := load(t, text)
		token, err := cfg.Token.Reveal()
		if err != nil {
			t.Fatal(err)
		}
		got := []string{token, cfg.Site, cfg.CertDenyList[0].Source, cfg.Pushgateway.Grouping["zone"], cfg.Pushgateway.Headers["X-Auth"]}
		if diff := cmp.Diff([]string{"s3cret", "ams", "^vault$", "one", "abc"}, got); diff != "" || len(cfg.Helper.Args) != 1 {
			t.Errorf("%s (-want +got):\n%s", block, diff)
		}
		if len(warnings) > 0 {
			t.Errorf("%s: got %v, want nothing to say", block, warnings)
		}
	}
}

func TestWhiteSpaceAroundTheSiteIsNotPartOfIt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`" ams\n"`, `"ams\t"`, "' ams'"} {
		cfg, warnings := load(t, "helper: DIR/helper\ntoken: x\nsite: "+text+"\n")
		if cfg.Site != "ams" || len(warnings) != 1 || !strings.Contains(warnings[0].Text, "white space") {
			t.Errorf("%s: got %q and %v, want ams and a warning", text, cfg.Site, warnings)
		}
	}
}
