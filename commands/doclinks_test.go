package commands

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestEveryLinkResolves follows each link of each document to a file and, behind
// #, to a heading. Links to other sites are read, not followed.
func TestEveryLinkResolves(t *testing.T) {
	t.Parallel()
	anchors := map[string][]string{}
	all := pages(t)
	for _, p := range all {
		anchors[p.path] = p.anchors
	}
	seen := 0
	for _, p := range all {
		for _, destination := range p.links {
			seen++
			if problem := follow(p.path, destination, anchors); problem != "" {
				t.Errorf("%s links to %s: %s", p.path, destination, problem)
			}
		}
	}
	if seen < 50 {
		t.Errorf("found %d links, want the many that the documents hold", seen)
	}
}

// follow returns what is wrong with a link from a page.
func follow(from, destination string, anchors map[string][]string) string {
	link, err := url.Parse(destination)
	switch {
	case err != nil:
		return err.Error()
	case link.Scheme != "":
		if link.Scheme != "https" || link.Host == "" {
			return "no https address"
		}
		return ""
	}
	target := from
	if link.Path != "" {
		target = filepath.Join(filepath.Dir(from), link.Path)
	}
	if _, err := os.Stat(filepath.Join("..", target)); err != nil {
		return err.Error()
	}
	if link.Fragment != "" && !slices.Contains(anchors[target], link.Fragment) {
		return "no such heading"
	}
	return ""
}

func TestBrokenLinksAreFound(t *testing.T) {
	t.Parallel()
	anchors := map[string][]string{"docs/helper.md": {"answer"}, "README.md": {"try-it"}}
	for _, destination := range []string{"docs/nothing.md", "docs/helper.md#nothing", "#nothing", "http://choria.io", "https:///x", "docs/faults.md#x"} {
		if follow("README.md", destination, anchors) == "" {
			t.Errorf("%s is found to be good", destination)
		}
	}
	for _, destination := range []string{"docs/helper.md#answer", "#try-it", "https://choria.io", "examples"} {
		if problem := follow("README.md", destination, anchors); problem != "" {
			t.Errorf("%s: %s, want a good link", destination, problem)
		}
	}
}
