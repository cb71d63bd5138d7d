package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestKubernetesConfigurationIsAccepted has `config check` judge the ConfigMap
// in the image, with the mounts and the environment of the CronJob's container.
// What the skeleton of the Secret leaves open comes from a lab.
func TestKubernetesConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	root, image := unpacked(t)
	all := objects(t)
	secret := all["v1/Secret"].(*corev1.Secret).StringData
	maps.Copy(secret, labKeys(t, filepath.Join(root, "usr/bin/provision"), "provisioner.seed", "provisioner.jwt"))
	volumes := map[string]string{
		"configuration": volume(t, all["v1/ConfigMap"].(*corev1.ConfigMap).Data),
		"secrets":       volume(t, secret),
	}
	// A static program stands for the helper: this image has no shell.
	if err := os.Link(filepath.Join(root, "usr/bin/provision"), filepath.Join(root, "usr/bin/site-helper")); err != nil {
		t.Fatal(err)
	}
	container := all["batch/v1/CronJob"].(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	line := confined(root, image, containerFlags(t, root, container, volumes)...)
	line = append(line, "config", "check")
	out := mustRun(t, line[0], line[1:]...)
	if strings.Contains(out, "warning") {
		t.Errorf("got %q, want no warning", out)
	}
}

// containerFlags are bubblewrap's flags for mounts and environment of a container.
func containerFlags(t *testing.T, root string, c corev1.Container, volumes map[string]string) []string {
	t.Helper()
	var flags []string
	for _, m := range c.VolumeMounts {
		if err := os.MkdirAll(filepath.Join(root, m.MountPath), 0o755); err != nil {
			t.Fatal(err)
		}
		if dir, ok := volumes[m.Name]; ok {
			flags = append(flags, "--ro-bind", dir, m.MountPath)
		} else {
			flags = append(flags, "--tmpfs", m.MountPath)
		}
	}
	for _, e := range c.Env {
		flags = append(flags, "--setenv", e.Name, e.Value)
	}
	return flags
}

// volume is a directory with files as a pod sees them.
func volume(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o440); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// labKeys returns key files of a lab that has ended.
func labKeys(t *testing.T, program string, names ...string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	mustRun(t, program, "lab", "--nodes", "1", "--keep", dir, "--", "provision", "once")
	keys := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, "keys", name))
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = string(text)
	}
	return keys
}
