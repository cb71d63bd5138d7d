package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kinds are the types of the API that the examples use.
func kinds() map[string]any {
	return map[string]any{
		"v1/ConfigMap": &corev1.ConfigMap{}, "v1/Secret": &corev1.Secret{}, "v1/ServiceAccount": &corev1.ServiceAccount{},
		"batch/v1/CronJob": &batchv1.CronJob{}, "apps/v1/Deployment": &appsv1.Deployment{},
	}
}

// objects decodes every document of the examples; an unknown field or a wrong
// type fails.
func objects(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob("../../examples/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example (%v)", err)
	}
	all := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var meta metav1.TypeMeta
			if err := yaml.Unmarshal(document, &meta); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kind := meta.APIVersion + "/" + meta.Kind
			object, known := kinds()[kind]
			if !known || all[kind] != nil {
				t.Fatalf("%s: unexpected %s", file, kind)
			}
			if err := yaml.UnmarshalStrict(document, object); err != nil {
				t.Errorf("%s: %s: %v", file, kind, err)
			}
			all[kind] = object
		}
	}
	return all
}

func TestKubernetesExamplesFitTheAPI(t *testing.T) {
	t.Parallel()
	all := objects(t)
	if len(all) != len(kinds()) {
		t.Fatalf("got %d kinds, want %d", len(all), len(kinds()))
	}
	job, watch := all["batch/v1/CronJob"].(*batchv1.CronJob), all["apps/v1/Deployment"].(*appsv1.Deployment)
	if job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		t.Errorf("the CronJob's runs may overlap: %s", job.Spec.ConcurrencyPolicy)
	}
	selector, err := metav1.LabelSelectorAsMap(watch.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range selector {
		if watch.Spec.Template.Labels[name] != value {
			t.Errorf("the Deployment does not select its pods by %s", name)
		}
	}
	config, secret := all["v1/ConfigMap"].(*corev1.ConfigMap), all["v1/Secret"].(*corev1.Secret)
	for name, pod := range map[string]corev1.PodSpec{"CronJob": job.Spec.JobTemplate.Spec.Template.Spec, "Deployment": watch.Spec.Template.Spec} {
		t.Run(name, func(t *testing.T) { checkPod(t, pod, config.Name, secret.Name) })
	}
}

// checkPod holds that a pod is confined, has its secrets as files and nothing
// that outlives it.
func checkPod(t *testing.T, pod corev1.PodSpec, config, secret string) {
	s := pod.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod may run as root or has a token of the API")
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) != 1 {
			t.Errorf("container %s is not confined", c.Name)
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				t.Errorf("container %s has a secret in %s", c.Name, e.Name)
			}
		}
	}
	for _, v := range pod.Volumes {
		switch {
		case v.ConfigMap != nil && v.ConfigMap.Name == config, v.EmptyDir != nil:
		case v.Secret != nil && v.Secret.SecretName == secret && *v.Secret.DefaultMode == 0o440:
		default:
			t.Errorf("volume %s: %+v", v.Name, v.VolumeSource)
		}
	}
}
