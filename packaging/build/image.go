package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user that the image names; any other works as well.
const imageUser = "65532:65532"

// writeImage writes an OCI layout as a tar file: one index over an image for
// each architecture.
func writeImage(s source, programs programs, path string) error {
	labels := imageLabels(s)
	index := mutate.IndexMediaType(mutate.Annotations(empty.Index, labels).(v1.ImageIndex), types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := archImage(s, arch, programs.path(arch))
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "provision-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": strings.ReplaceAll(s.version, "~", "-")}
	if err := written.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	return tarLayout(s, dir, path)
}

func imageLabels(s source) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "choria-provision",
		"org.opencontainers.image.version":  s.version,
		"org.opencontainers.image.revision": s.commit,
		"org.opencontainers.image.created":  s.date.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// archImage is an image of the program, the CAs that the web trusts and nothing
// else: no shell. A helper that needs one goes into an image over this one.
func archImage(s source, arch, program string) (v1.Image, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	layer, err := imageLayer(s, data)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: s.date}, CreatedBy: "make packages"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(mutate.ConfigMediaType(image, types.OCIConfigJSON), imageConfig(s, arch, image))
}

func imageConfig(s source, arch string, image v1.Image) *v1.ConfigFile {
	file, err := image.ConfigFile()
	if err != nil {
		file = &v1.ConfigFile{}
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: s.date}
	file.Config = v1.Config{
		User: imageUser, Entrypoint: []string{"/usr/bin/provision"}, Cmd: []string{"once"},
		Env:    []string{"PATH=/usr/bin:/bin", "PROVISION_UNATTENDED=1", "USER=choria-provision"},
		Labels: imageLabels(s), StopSignal: "SIGTERM",
	}
	return file
}

func imageLayer(s source, program []byte) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range []entry{
		{path: "dev", dir: true, mode: 0o755}, // a runtime mounts these two, on a read-only root as well
		{path: "etc", dir: true, mode: 0o755},
		{path: "etc/choria-provision", dir: true, mode: 0o755},
		{path: "etc/group", mode: 0o644, data: []byte("root:x:0:\nchoria-provision:x:65532:\n")},
		{path: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0::/:/sbin/nologin\nchoria-provision:x:65532:65532::/:/sbin/nologin\n")},
		{path: "etc/ssl", dir: true, mode: 0o755},
		{path: "etc/ssl/certs", dir: true, mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: rootCAs()},
		{path: "proc", dir: true, mode: 0o755},
		{path: "tmp", dir: true, mode: 0o1777},
		{path: "usr", dir: true, mode: 0o755},
		{path: "usr/bin", dir: true, mode: 0o755},
		{path: "usr/bin/provision", mode: 0o755, data: program},
		{path: "var", dir: true, mode: 0o755},
		{path: "var/lib", dir: true, mode: 0o755},
		{path: "var/lib/choria-provision", dir: true, mode: 0o700},
	} {
		if err := addEntry(w, s.date, e); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func addEntry(w *tar.Writer, at time.Time, e entry) error {
	h := &tar.Header{Name: e.path, Mode: int64(e.mode), ModTime: at, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
	if e.dir {
		h.Name, h.Typeflag = e.path+"/", tar.TypeDir
	}
	if e.path == "var/lib/choria-provision" {
		h.Uid, h.Gid = 65532, 65532
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(e.data)
	return err
}

// rootCAs are the CAs of the web's trust store, for a Pushgateway over HTTPS.
func rootCAs() []byte {
	var b bytes.Buffer
	for ca := range bundle.Roots() {
		if ca.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate}) // a buffer takes all
		}
	}
	return b.Bytes()
}

// tarLayout puts a directory into a tar file, in the order of names.
func tarLayout(s source, dir, path string) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return addEntry(w, s.date, entry{path: name, dir: true, mode: 0o755})
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return addEntry(w, s.date, entry{path: name, mode: 0o644, data: data})
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
