// Command build makes the packages of provision: deb and rpm, an OCI image, an
// SBOM of each program and the checksums of all of them. The same commit gives
// the same bytes. It is a module of its own: nothing of it is in the product.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// architectures are those of packages and image.
var architectures = []string{"amd64", "arm64"}

func main() {
	root := flag.String("root", "../..", "source tree")
	out := flag.String("out", "../../bin/packages", "directory for the packages; its files are replaced")
	flag.Parse()
	started := time.Now()
	names, err := buildAll(*root, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(*out, name)); err == nil {
			fmt.Printf("%6.1f MB  %s\n", float64(info.Size())/1e6, name)
		}
	}
	fmt.Printf("built in %s: %s\n", time.Since(started).Round(time.Second), *out)
}

// buildAll builds everything from the tree at root into out and returns the
// names of the files.
func buildAll(root, out string) ([]string, error) {
	s, err := openSource(root)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	programs, err := buildPrograms(s)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(programs.dir)
	entries, err := readContents(root)
	if err != nil {
		return nil, err
	}
	made, err := madeContents(root, programs.path(runtime.GOARCH))
	if err != nil {
		return nil, err
	}
	if err := packAll(s, programs, append(entries, made...), out); err != nil {
		return nil, err
	}
	return writeSums(out)
}

func packAll(s source, programs programs, entries []entry, out string) error {
	for _, arch := range architectures {
		program, err := os.ReadFile(programs.path(arch))
		if err != nil {
			return err
		}
		all := append(slices.Clone(entries), entry{path: "/usr/bin/provision", mode: 0o755, group: "root", data: program})
		for _, format := range []string{"deb", "rpm"} {
			if err := pack(s, target{format, arch, out}, all); err != nil {
				return fmt.Errorf("%s for %s: %w", format, arch, err)
			}
		}
		if err := writeSBOM(s, programs.path(arch), filepath.Join(out, fmt.Sprintf("choria-provision_%s_%s.cdx.json", s.version, arch))); err != nil {
			return fmt.Errorf("the SBOM for %s: %w", arch, err)
		}
	}
	return writeImage(s, programs, filepath.Join(out, fmt.Sprintf("choria-provision_%s_oci.tar", s.version)))
}

// programs are the built programs, one for each architecture.
type programs struct{ dir string }

func (p programs) path(arch string) string { return filepath.Join(p.dir, arch, "provision") }

// buildPrograms builds a static program for each architecture.
func buildPrograms(s source) (programs, error) {
	dir, err := os.MkdirTemp("", "provision-programs-")
	if err != nil {
		return programs{}, err
	}
	p := programs{dir}
	stamp := "-X choria-provision/commands."
	flags := "-s -w -buildid= " + stamp + "release=" + s.version + " " + stamp + "commit=" + s.commit + " " + stamp + "date=" + s.date.Format(time.RFC3339)
	for _, arch := range architectures {
		env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off"}
		if _, err := run(s.root, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", p.path(arch), "."); err != nil {
			return programs{}, err
		}
	}
	return p, nil
}

// writeSums writes SHA256SUMS, which `sha256sum --check` reads.
func writeSums(out string) ([]string, error) {
	files, err := os.ReadDir(out)
	if err != nil {
		return nil, err
	}
	var sums strings.Builder
	var names []string
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), f.Name())
		names = append(names, f.Name())
	}
	return append(names, "SHA256SUMS"), os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
