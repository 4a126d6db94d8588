package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// rendered is what `helm template` makes of the chart with values, by template.
func rendered(t *testing.T, values ...string) map[string]string {
	t.Helper()
	chart, err := loader.Load("../chart")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]any{}
	for _, v := range values {
		if err := strvals.ParseInto(v, set); err != nil {
			t.Fatal(err)
		}
	}
	with, err := chartutil.ToRenderValues(chart, set, chartutil.ReleaseOptions{Name: "weir", Namespace: "default"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, with)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, text := range files {
		if strings.TrimSpace(text) != "" {
			out[filepath.Base(name)] = text
		}
	}
	return out
}

// objectsOf are the objects of a file by kind and name.
func objectsOf(t *testing.T, text []byte) map[string]object {
	t.Helper()
	all := map[string]object{}
	documents := yamlreader.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		var o object
		if err == nil {
			err = yaml.UnmarshalStrict(document, &o)
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if o != nil {
			all[fmt.Sprint(o["kind"], " ", o["metadata"].(object)["name"])] = o
		}
	}
}

// withoutComments takes comments out of a weir.yml, which mean nothing to weir.
func withoutComments(o object) {
	data, _ := o["data"].(object)
	for key, text := range data {
		var settings object
		if err := yaml.Unmarshal([]byte(fmt.Sprint(text)), &settings); err == nil {
			plain, _ := json.Marshal(settings)
			data[key] = string(plain)
		}
	}
}

// The chart makes the objects of the plain manifests, each and no other, so that neither can drift from the other.
func TestChartMakesTheManifests(t *testing.T) {
	made := map[string]string{}
	for _, values := range [][]string{
		{"monitoring.enabled=true", "gateway.kind=router"}, {"autoscale.kind=keda", "gateway.kind=pool"},
	} {
		maps.Copy(made, rendered(t, values...))
	}
	plain, err := filepath.Glob("../*.yaml")
	if err != nil || len(plain) != len(made) {
		t.Fatalf("%d manifests, and the chart has %v: %v", len(plain), slices.Sorted(maps.Keys(made)), err)
	}
	for _, file := range plain {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		got, want := objectsOf(t, []byte(made[name])), objectsOf(t, data)
		for id, o := range want {
			withoutComments(o)
			if own := got[id]; own != nil {
				withoutComments(own)
			}
			if !reflect.DeepEqual(got[id], o) {
				a, _ := json.MarshalIndent(got[id], "", " ")
				b, _ := json.MarshalIndent(o, "", " ")
				t.Errorf("%s: the chart's %s differs\n%s\nwant\n%s", name, id, a, b)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d objects of the chart, want %d", name, len(got), len(want))
		}
	}
}

// What the values change conforms to the schemas, and weir reads the settings.
func TestChartWithValues(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "weir")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/weir")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rules, err := exec.CommandContext(t.Context(), binary, "config", "rules").Output()
	if err != nil {
		t.Fatal(err)
	}
	escaped := strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(string(rules))
	files := rendered(t, "monitoring.enabled=true", "monitoring.rules="+escaped, "autoscale.kind=none", "gateway.kind=router", "region=eu", "secret=keys",
		"router.store.secret=store", `router.tenants[0].name=acme`, `router.tenants[0].residency[0]=eu`, "router.egress[0].ports[0].port=5432",
		`replicas.config=scheduler: {max_num_seqs: 8}`, `router.config=log: {level: debug}`)
	for name, text := range files {
		for _, failure := range conforms(t, name, []byte(text)) {
			t.Error(failure)
		}
	}
	if !strings.Contains(files["monitoring.yaml"], "kind: PrometheusRule") || !strings.Contains(files["weir.yaml"], "replicas: 2") {
		t.Errorf("%s\n%s", files["monitoring.yaml"], files["weir.yaml"])
	}
	takes(t, binary, files, "weir", "weir-route")

	files = rendered(t, "prefill.count=3", "prefill.config=scheduler: {max_num_batched_tokens: 2048}", "monitoring.enabled=true", "autoscale.kind=keda", "gateway.kind=pool", "region=eu")
	c := &cluster{configs: make(map[string]*core.ConfigMap), deployments: make(map[string]*apps.Deployment)}
	for name, text := range files {
		for _, failure := range conforms(t, name, []byte(text)) {
			t.Error(failure)
		}
		if name != "monitoring.yaml" { // the monitor's own fields stand in the plain file
			c.read(t, name, []byte(text))
		}
	}
	takes(t, binary, files, "weir", "weir-prefill", "weir-route")
	c.pooled(t)
	if !strings.Contains(files["keda.yaml"], `llm_d_ai_role="decode"`) || !strings.Contains(files["monitoring.yaml"], "podTargetLabels: [llm-d.ai/role]") {
		t.Errorf("the scaler counts the prefill pool, too:\n%s\n%s", files["keda.yaml"], files["monitoring.yaml"])
	}
}

// pooled looks at two pools: each has a Deployment, a name and a budget that select its pods alone, and the router asks each by its role.
func (c *cluster) pooled(t *testing.T) {
	t.Helper()
	routes := c.configs["weir-route"].Data["weir.yml"]
	for name, role := range map[string]string{"weir": "decode", "weir-prefill": "prefill"} {
		d := c.deployments[name]
		if d == nil || d.Spec.Template.Labels["llm-d.ai/role"] != role || d.Spec.Template.Spec.Volumes[0].ConfigMap.Name != name {
			t.Fatalf("the pool of role %s: %+v", role, d)
		}
		if n := c.matched(of(t, d.Spec.Selector)); n != 1 {
			t.Errorf("the selector of %s matches the pods of %d deployments", name, n)
		}
		at := map[string]string{"decode": "weir-replicas", "prefill": "weir-prefill"}[role]
		for _, want := range []string{"dns: http://" + at + ":8000/v1", "admin_url: http://" + at + ":9090", "role: " + role} {
			if !strings.Contains(routes, want) {
				t.Errorf("the routers' weir.yml lacks %s:\n%s", want, routes)
			}
		}
	}
	for _, s := range append(c.serving(), c.budgeted(t)...) {
		if n := c.matched(s); n != 1 {
			t.Errorf("selector %v matches the pods of %d deployments", s, n)
		}
	}
	if got := *c.deployments["weir-prefill"].Spec.Replicas; got != 3 {
		t.Errorf("%d prefill replicas", got)
	}
	if !labels.SelectorFromSet(c.pools[0].Spec.Selector.MatchLabels).Matches(labels.Set(c.deployments["weir"].Spec.Template.Labels)) || c.matched(labels.SelectorFromSet(c.pools[0].Spec.Selector.MatchLabels)) != 1 {
		t.Errorf("the InferencePool selects %v", c.pools[0].Spec.Selector)
	}
}

// takes has weir read the settings of pools and routers.
func takes(t *testing.T, binary string, files map[string]string, names ...string) {
	t.Helper()
	for _, name := range names {
		of := map[string]string{"weir-route": "route.yaml"}[name]
		if of == "" {
			of = "weir.yaml"
		}
		text := fmt.Sprint(objectsOf(t, []byte(files[of]))["ConfigMap "+name]["data"].(object)["weir.yml"])
		folder := t.TempDir()
		file := filepath.Join(folder, "weir.yml")
		for path, text := range map[string]string{file: strings.ReplaceAll(text, "/etc/weir-key/", folder+"/"), filepath.Join(folder, "api-key"): "0123456789abcdef\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		show := exec.CommandContext(t.Context(), binary, "config", "print", "--config", file)
		show.Env = append(os.Environ(), "WEIR_API_KEY=0123456789abcdef", "WEIR_PREFIX_CACHE_KEY=0123456789abcdef",
			"WEIR_PEER_KEY=0123456789abcdef0123456789abcdef", "WEIR_REGION=eu")
		if out, err := show.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("eu")) {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, text)
		}
	}
}
