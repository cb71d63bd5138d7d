package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// untar unpacks a tar stream below dir.
func untar(t *testing.T, stream io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, h.FileInfo().Mode().Perm()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, h.FileInfo().Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

// openImage returns the index and the image for this machine.
func openImage(t *testing.T) (v1.ImageIndex, v1.Image) {
	t.Helper()
	file, err := os.Open(built(t, "*_oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir := t.TempDir()
	untar(t, file, dir)
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("got %+v (%v), want one index", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range inner.Manifests {
		if m.Platform.Architecture == runtime.GOARCH {
			image, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return index, image
		}
	}
	t.Fatalf("no image for %s", runtime.GOARCH)
	return nil, nil
}

func TestImageIsValid(t *testing.T) {
	t.Parallel()
	index, image := openImage(t)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config; got.User != imageUser || strings.Join(append(got.Entrypoint, got.Cmd...), " ") != "/usr/bin/provision once" {
		t.Errorf("got user %s, %v %v", got.User, got.Entrypoint, got.Cmd)
	}
}

// confined is the command line that runs a program in the unpacked image: an
// unknown user, a read-only root, no HOME; extra goes before the command.
func confined(root string, config v1.Config, extra ...string) []string {
	line := []string{"bwrap", "--unshare-user", "--uid", "12345", "--gid", "12345", "--clearenv", "--ro-bind", root, "/", "--dev", "/dev", "--proc", "/proc"}
	for _, e := range config.Env {
		name, value, _ := strings.Cut(e, "=")
		line = append(line, "--setenv", name, value)
	}
	return append(append(line, extra...), config.Entrypoint...)
}

func TestImageRunsAsAnUnknownUserOnAReadOnlyRoot(t *testing.T) {
	t.Parallel()
	root, config := unpacked(t)
	line := append(confined(root, config), "version")
	if got := mustRun(t, line[0], line[1:]...); !strings.HasPrefix(got, "provision ") {
		t.Errorf("got %q", got)
	}
	runOnceInImage(t, root, config)
}

// unpacked is a directory with the image's files, and the image's configuration.
func unpacked(t *testing.T) (string, v1.Config) {
	t.Helper()
	needs(t, "bwrap")
	_, image := openImage(t)
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	stream := mutate.Extract(image)
	defer stream.Close()
	untar(t, stream, root)
	return root, file.Config
}

// runOnceInImage has `once` of the image serve two servers of a lab. The records
// are in Choria Streams; the state directory is in memory and empty.
func runOnceInImage(t *testing.T, root string, config v1.Config) {
	t.Helper()
	keep := t.TempDir()
	for _, dir := range []string{keep, root} { // where the lab is mounted, and its helper
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	line := confined(root, config, "--tmpfs", "/tmp", "--ro-bind", keep, keep, "--ro-bind", root, root,
		"--bind", filepath.Join(keep, "issued"), filepath.Join(keep, "issued"), // the lab's helper notes there what it answered
		"--setenv", "PROVISION_STATE_DIR", "/tmp/state", "--setenv", "PROVISION_HOST", "image")
	line = append(line, "once", "--config", "CONFIG", "--choria-config", "CHORIA", "--unattended")
	script := strings.NewReplacer("CONFIG", `"$PROVISION_CONFIG"`, "CHORIA", `"$PROVISION_CHORIA_CONFIG"`).Replace(strings.Join(line, " "))
	out := mustRun(t, filepath.Join(root, "usr/bin/provision"), "lab", "--nodes", "2", "--hosts", "1", "--keep", keep, "--", "sh", "-c", "exec "+script)
	// Exit code 0 also means that the lab found both servers in service.
	if !strings.Contains(out, ": 2 provisioned\n") {
		t.Errorf("got %q", out)
	}
}
