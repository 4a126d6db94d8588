// Package check holds the Kubernetes manifests to Kubernetes's own types, to one
// another, and to weir's settings. It is a module of its own, so that weir's build
// does not know these types. `make manifests` runs it.
package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// cluster is all that the manifests declare.
type cluster struct {
	configs     map[string]*core.ConfigMap
	deployments map[string]*apps.Deployment
	services    []*core.Service
	budgets     []*policy.PodDisruptionBudget
	walls       []*networking.NetworkPolicy
	scalers     []*autoscaling.HorizontalPodAutoscaler
	scaled      []*scaledObject
	monitors    []*podMonitor
	pools       []*inferencePool
	routes      []*httpRoute
}

// inferencePool has the fields of the inference extension's resource (v1) that pool.yaml uses; any other is an error.
type inferencePool struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		TargetPorts []struct {
			Number int32 `json:"number"`
		} `json:"targetPorts"`
		EndpointPickerRef struct {
			Name string `json:"name"`
			Port struct {
				Number int32 `json:"number"`
			} `json:"port"`
			FailureMode string `json:"failureMode"`
		} `json:"endpointPickerRef"`
	} `json:"spec"`
}

// httpRoute has the fields of Gateway API's resource (v1) that httproute.yaml and pool.yaml use.
type httpRoute struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ParentRefs []struct {
			Name string `json:"name"`
		} `json:"parentRefs"`
		Hostnames []string `json:"hostnames"`
		Rules     []struct {
			Matches []struct {
				Path struct {
					Type  string `json:"type"`
					Value string `json:"value"`
				} `json:"path"`
			} `json:"matches"`
			Timeouts struct {
				Request string `json:"request"`
			} `json:"timeouts"`
			BackendRefs []struct {
				Group string `json:"group"`
				Kind  string `json:"kind"`
				Name  string `json:"name"`
				Port  int32  `json:"port"`
			} `json:"backendRefs"`
		} `json:"rules"`
	} `json:"spec"`
}

// scaledObject has the fields of KEDA's resource (v2.21) that keda.yaml uses; any other is an error.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef  autoscaling.CrossVersionObjectReference `json:"scaleTargetRef"`
		MinReplicaCount int32                                   `json:"minReplicaCount"`
		MaxReplicaCount int32                                   `json:"maxReplicaCount"`
		PollingInterval int32                                   `json:"pollingInterval"`
		Fallback        struct {
			FailureThreshold int32 `json:"failureThreshold"`
			Replicas         int32 `json:"replicas"`
		} `json:"fallback"`
		Advanced struct {
			Config struct {
				Behavior *autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// podMonitor has the fields of Prometheus Operator's resource that monitoring.yaml uses.
type podMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		JobLabel  string             `json:"jobLabel"`
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string                 `json:"port"`
			Path     string                 `json:"path"`
			Interval string                 `json:"interval"`
			Token    core.SecretKeySelector `json:"bearerTokenSecret"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

func read(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{configs: make(map[string]*core.ConfigMap), deployments: make(map[string]*apps.Deployment)}
	files, err := filepath.Glob("../*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c.read(t, file, data)
	}
	return c
}

// read adds the objects of a file.
func (c *cluster) read(t *testing.T, file string, data []byte) {
	t.Helper()
	documents := yamlreader.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = c.add(document)
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, document)
		}
	}
}

func (c *cluster) add(document []byte) error {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 ConfigMap":
		o, err := strict[core.ConfigMap](document)
		c.configs[o.Name] = o
		return err
	case "apps/v1 Deployment":
		o, err := strict[apps.Deployment](document)
		c.deployments[o.Name] = o
		return err
	case "v1 Service":
		return keep(&c.services, document)
	case "policy/v1 PodDisruptionBudget":
		return keep(&c.budgets, document)
	case "networking.k8s.io/v1 NetworkPolicy":
		return keep(&c.walls, document)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return keep(&c.scalers, document)
	case "keda.sh/v1alpha1 ScaledObject":
		return keep(&c.scaled, document)
	case "monitoring.coreos.com/v1 PodMonitor":
		return keep(&c.monitors, document)
	case "inference.networking.k8s.io/v1 InferencePool":
		return keep(&c.pools, document)
	case "gateway.networking.k8s.io/v1 HTTPRoute":
		return keep(&c.routes, document)
	}
	return errors.New("no test knows " + kind.APIVersion + " " + kind.Kind)
}

func strict[T any](document []byte) (*T, error) {
	o := new(T)
	return o, yaml.UnmarshalStrict(document, o)
}

func keep[T any](list *[]*T, document []byte) error {
	o, err := strict[T](document)
	*list = append(*list, o)
	return err
}

// Each Deployment is served, has a budget for disruptions and a network policy, and its
// selectors find its own pods only.
func TestEverythingFindsItsPods(t *testing.T) {
	c := read(t)
	for name, d := range c.deployments {
		for what, selectors := range map[string][]labels.Selector{
			"deployment": {of(t, d.Spec.Selector)}, "service": c.serving(), "disruption budget": c.budgeted(t), "network policy": c.walled(t),
		} {
			found := 0
			for _, s := range selectors {
				if s.Matches(labels.Set(d.Spec.Template.Labels)) {
					found++
				}
			}
			if found == 0 {
				t.Errorf("deployment %s has no %s", name, what)
			}
		}
	}
	for _, s := range append(append(c.serving(), c.budgeted(t)...), c.walled(t)...) {
		if n := c.matched(s); n != 1 {
			t.Errorf("selector %v matches the pods of %d deployments", s, n)
		}
	}
	if n := c.matched(of(t, &c.monitors[0].Spec.Selector)); n != len(c.deployments) {
		t.Errorf("the monitor watches %d of %d deployments", n, len(c.deployments))
	}
}

// The pool selects the replicas at a port that they have, answers metrics without a key there, and each route of a gateway ends at something
// that is there.
func TestGatewaysFindTheirBackends(t *testing.T) {
	c := read(t)
	pool := c.pools[0]
	d := c.deployments["weir"]
	if !labels.SelectorFromSet(pool.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) ||
		pool.Spec.TargetPorts[0].Number != d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort {
		t.Errorf("the pool %+v does not find the replicas", pool.Spec)
	}
	for _, want := range []string{"api_metrics: true", "open_metrics: true"} {
		if !strings.Contains(c.configs["weir"].Data["weir.yml"], want) {
			t.Errorf("the picker cannot read the replicas' metrics: weir.yml lacks %s", want)
		}
	}
	backends := map[string]bool{}
	for _, s := range c.services {
		for _, p := range s.Spec.Ports {
			backends[fmt.Sprintf("/ %s:%d", s.Name, p.Port)] = true
		}
	}
	for _, p := range c.pools {
		backends[fmt.Sprintf("%s/%s %s:0", "inference.networking.k8s.io", p.Kind, p.Name)] = true
	}
	for _, r := range c.routes {
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				if name := fmt.Sprintf("%s/%s %s:%d", b.Group, b.Kind, b.Name, b.Port); !backends[name] {
					t.Errorf("route %s ends at %s, which is not there; there are %v", r.Name, name, backends)
				}
			}
			if rule.Timeouts.Request != "0s" {
				t.Errorf("route %s cuts streams after %s", r.Name, rule.Timeouts.Request)
			}
		}
	}
}

// Routers know what is said of the replicas with the replicas' own secrets, read their admin listener, and have their tokenizer.
func TestRoutersKnowTheirReplicas(t *testing.T) {
	c := read(t)
	secret := func(name, variable string) string {
		for _, e := range c.deployments[name].Spec.Template.Spec.Containers[0].Env {
			if e.Name == variable && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				return e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
			}
		}
		return ""
	}
	for _, variable := range []string{"WEIR_API_KEY", "WEIR_PREFIX_CACHE_KEY", "WEIR_PEER_KEY"} {
		if a, b := secret("weir", variable), secret("weir-route", variable); a == "" || a != b {
			t.Errorf("%s is %q in replicas, and %q in routers", variable, a, b)
		}
	}
	replicas, routers := c.configs["weir"].Data["weir.yml"], c.configs["weir-route"].Data["weir.yml"]
	for _, want := range []string{"tokenizer: /models/model.gguf", "admin_url: http://weir-replicas:9090"} {
		if !strings.Contains(routers, want) {
			t.Errorf("the routers' weir.yml lacks %s", want)
		}
	}
	for _, want := range []string{"path: /models/model.gguf", "admin_address: 0.0.0.0:9090"} {
		if !strings.Contains(replicas, want) {
			t.Errorf("the replicas' weir.yml lacks %s", want)
		}
	}
}

func (c *cluster) matched(s labels.Selector) (n int) {
	for _, d := range c.deployments {
		if s.Matches(labels.Set(d.Spec.Template.Labels)) {
			n++
		}
	}
	return n
}

func of(t *testing.T, s *meta.LabelSelector) labels.Selector {
	t.Helper()
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

func (c *cluster) serving() (list []labels.Selector) {
	for _, s := range c.services {
		list = append(list, labels.SelectorFromSet(s.Spec.Selector))
	}
	return list
}

func (c *cluster) budgeted(t *testing.T) (list []labels.Selector) {
	for _, b := range c.budgets {
		list = append(list, of(t, b.Spec.Selector))
	}
	return list
}

func (c *cluster) walled(t *testing.T) (list []labels.Selector) {
	for _, w := range c.walls {
		list = append(list, of(t, &w.Spec.PodSelector))
	}
	return list
}

// Ports, probes, volumes and secrets name what exists, and a pod lives longer than its drain.
func TestPodsAreWhole(t *testing.T) {
	c := read(t)
	for name, d := range c.deployments {
		pod := d.Spec.Template.Spec
		w := pod.Containers[0]
		ports := map[string]bool{}
		for _, p := range w.Ports {
			ports[p.Name] = true
		}
		for _, probe := range []*core.Probe{w.ReadinessProbe, w.LivenessProbe} {
			if probe == nil || !ports[probe.HTTPGet.Port.String()] {
				t.Fatalf("%s: probe %+v", name, probe)
			}
		}
		if w.ReadinessProbe.HTTPGet.Path != "/ready" || w.LivenessProbe.HTTPGet.Path != "/health" {
			t.Errorf("%s: probes ask %s and %s", name, w.ReadinessProbe.HTTPGet.Path, w.LivenessProbe.HTTPGet.Path)
		}
		for _, s := range c.services {
			for _, p := range s.Spec.Ports {
				if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) && !ports[p.TargetPort.String()] {
					t.Errorf("service %s sends to port %s of %s", s.Name, p.TargetPort.String(), name)
				}
			}
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
			if v.ConfigMap != nil && c.configs[v.ConfigMap.Name] == nil {
				t.Errorf("%s mounts the ConfigMap %s, which is not there", name, v.ConfigMap.Name)
			}
		}
		for _, m := range w.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which is not there", name, m.Name)
			}
		}
		drain := time.Duration(w.Lifecycle.PreStop.Sleep.Seconds)*time.Second + shutdownTimeout(t, c.configs[name].Data["weir.yml"])
		if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < drain+10*time.Second {
			t.Errorf("%s is killed after %v and needs up to %v to drain", name, grace, drain)
		}
		if s := w.SecurityContext; s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The two autoscalers say the same: fast out, slowly in, at least two replicas.
func TestAutoscalersAgree(t *testing.T) {
	c := read(t)
	a, b := c.scalers[0].Spec, c.scaled[0].Spec
	if c.deployments[a.ScaleTargetRef.Name] == nil || a.ScaleTargetRef != b.ScaleTargetRef {
		t.Errorf("targets %+v and %+v", a.ScaleTargetRef, b.ScaleTargetRef)
	}
	if *a.MinReplicas != b.MinReplicaCount || a.MaxReplicas != b.MaxReplicaCount || *a.MinReplicas < 2 {
		t.Errorf("%d-%d and %d-%d replicas", *a.MinReplicas, a.MaxReplicas, b.MinReplicaCount, b.MaxReplicaCount)
	}
	for _, behavior := range []*autoscaling.HorizontalPodAutoscalerBehavior{a.Behavior, b.Advanced.Config.Behavior} {
		up, down := behavior.ScaleUp, behavior.ScaleDown
		if *up.StabilizationWindowSeconds != 0 || *down.StabilizationWindowSeconds < 300 || len(up.Policies) == 0 || len(down.Policies) == 0 {
			t.Errorf("%+v", behavior)
		}
	}
	if len(a.Metrics) != len(b.Triggers) {
		t.Errorf("%d and %d signals", len(a.Metrics), len(b.Triggers))
	}
}

// weir takes the files that the ConfigMaps hold, with the verbs and flags of the pods.
func TestSettingsAreWeirs(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-o", binary, "./cmd/weir")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, c := range read(t).configs {
		folder := t.TempDir()
		file := filepath.Join(folder, "weir.yml")
		settings := strings.ReplaceAll(c.Data["weir.yml"], "/etc/weir-key/", folder+"/") // where the secret is mounted
		for path, text := range map[string]string{file: settings, filepath.Join(folder, "api-key"): "0123456789abcdef\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		show := exec.Command(binary, "config", "print", "--config", file)
		show.Env = append(os.Environ(), "WEIR_API_KEY=0123456789abcdef", "WEIR_PREFIX_CACHE_KEY=0123456789abcdef",
			"WEIR_PEER_KEY=0123456789abcdef0123456789abcdef")
		if out, err := show.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("0.0.0.0")) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// shutdownTimeout reads server.shutdown_timeout of a weir.yml.
func shutdownTimeout(t *testing.T, file string) time.Duration {
	t.Helper()
	var c struct {
		Server struct {
			ShutdownTimeout string `json:"shutdown_timeout"`
		} `json:"server"`
	}
	if err := yaml.Unmarshal([]byte(file), &c); err != nil {
		t.Fatal(err)
	}
	d, err := time.ParseDuration(strings.TrimSpace(c.Server.ShutdownTimeout))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
