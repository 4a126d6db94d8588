package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

// Where schemas come from: modules that hold them beside their code, at these versions. Nothing of them is compiled.
const (
	kubernetesModule = "k8s.io/kubernetes@v1.34.0" // api/openapi-spec
)

var crdModules = map[string][]string{
	"sigs.k8s.io/gateway-api@v1.6.0":                             {"config/crd/standard"},
	"sigs.k8s.io/gateway-api-inference-extension@v1.3.0":         {"config/crd/bases"},
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {"example/prometheus-operator-crd"},
	"github.com/kedacore/keda/v2@v2.21.0":                        {"config/crd/bases"},
}

// module is the folder of a module in the cache, where it is put if it is not there.
func module(t *testing.T, version string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", version)
	cmd.Dir = t.TempDir() // outside this module, whose go.mod knows nothing of it
	out, err := cmd.Output()
	var told struct{ Dir, Error string }
	if json.Unmarshal(out, &told) != nil || told.Dir == "" {
		t.Fatalf("%s: %v: %s", version, err, told.Error)
	}
	return told.Dir
}

// object is JSON.
type object = map[string]any

// closed forbids the fields that a schema does not name, as the API server does with strict field validation.
func closed(schema any) {
	switch s := schema.(type) {
	case object:
		if properties, ok := s["properties"].(object); ok && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
			s["additionalProperties"] = false
			for _, p := range properties {
				closed(p)
			}
		}
		if s["x-kubernetes-int-or-string"] == true {
			delete(s, "type")
		}
		for key, below := range s {
			if !slices.Contains([]string{"properties", "allOf", "anyOf", "oneOf", "not"}, key) { // those say more of the same object
				closed(below)
			}
		}
	case []any:
		for _, below := range s {
			closed(below)
		}
	}
}

// schemaFile names a schema as the location below has it.
func schemaFile(group, version, kind string) string {
	return strings.ToLower(fmt.Sprintf("%s_%s_%s.json", cmp.Or(group, version), version, kind)) // kubeconform's word for the group of core
}

func keepSchema(t *testing.T, folder, name string, schema object) {
	t.Helper()
	data, err := json.Marshal(schema)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// kubernetesSchemas writes the schemas of the groups that the manifests use.
func kubernetesSchemas(t *testing.T, folder string) {
	t.Helper()
	root := module(t, kubernetesModule)
	for _, name := range []string{"api__v1", "apis__apps__v1", "apis__policy__v1", "apis__networking.k8s.io__v1", "apis__autoscaling__v2"} {
		data, err := os.ReadFile(filepath.Join(root, "api/openapi-spec/v3", name+"_openapi.json"))
		var spec struct{ Components struct{ Schemas object } }
		if err == nil {
			err = json.Unmarshal(data, &spec)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spec.Components.Schemas {
			closed(s)
		}
		// Quantities and int-or-strings may be numbers.
		for _, either := range []string{"io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"} {
			if spec.Components.Schemas[either] != nil {
				spec.Components.Schemas[either] = object{"type": []string{"string", "number"}}
			}
		}
		for id, s := range spec.Components.Schemas {
			list, _ := s.(object)["x-kubernetes-group-version-kind"].([]any)
			for _, one := range list {
				of := one.(object)
				keepSchema(t, folder, schemaFile(fmt.Sprint(of["group"]), fmt.Sprint(of["version"]), fmt.Sprint(of["kind"])), object{
					"$ref": "#/components/schemas/" + id, "components": object{"schemas": spec.Components.Schemas},
				})
			}
		}
	}
}

// crdSchemas writes the schemas of the resources that others define.
func crdSchemas(t *testing.T, folder string) {
	t.Helper()
	for _, from := range slices.Sorted(maps.Keys(crdModules)) {
		root := module(t, from)
		for _, below := range crdModules[from] {
			files, err := filepath.Glob(filepath.Join(root, below, "*.yaml"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s has no CRDs in %s: %v", from, below, err)
			}
			for _, file := range files {
				crdSchema(t, folder, file)
			}
		}
	}
}

func crdSchema(t *testing.T, folder, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	var crd struct {
		Kind string
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					Schema object `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err == nil {
		err = yaml.Unmarshal(bytes.TrimPrefix(data, []byte("---\n")), &crd)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if crd.Kind != "CustomResourceDefinition" {
		return
	}
	for _, v := range crd.Spec.Versions {
		closed(v.Schema.Schema)
		if properties, ok := v.Schema.Schema["properties"].(object); ok {
			properties["metadata"] = object{"type": "object"} // the API server's own
		}
		keepSchema(t, folder, schemaFile(crd.Spec.Group, v.Name, crd.Spec.Names.Kind), v.Schema.Schema)
	}
}

// conform is kubeconform with all schemas, which are made once.
var conform struct {
	once   sync.Once
	folder string
	v      validator.Validator
}

func TestMain(m *testing.M) {
	code := m.Run()
	if conform.folder != "" {
		_ = os.RemoveAll(conform.folder)
	}
	os.Exit(code)
}

// conforms is what is wrong with the objects of a file.
func conforms(t *testing.T, name string, documents []byte) (failures []string) {
	t.Helper()
	conform.once.Do(func() {
		var err error
		if conform.folder, err = os.MkdirTemp("", "weir-schemas-"); err != nil {
			t.Fatal(err)
		}
		kubernetesSchemas(t, conform.folder)
		crdSchemas(t, conform.folder)
		conform.v, err = validator.New([]string{conform.folder + "/{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"}, validator.Opts{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
	})
	if conform.v == nil {
		t.Fatal("there are no schemas")
	}
	found := 0
	for _, r := range conform.v.Validate(name, io.NopCloser(bytes.NewReader(documents))) {
		switch r.Status {
		case validator.Valid:
			found++
		case validator.Empty:
		default:
			failures = append(failures, fmt.Sprintf("%s: %v %+v", name, r.Err, r.ValidationErrors))
		}
	}
	if found == 0 && len(failures) == 0 {
		failures = append(failures, name+" declares nothing")
	}
	return failures
}

// Every manifest is what Kubernetes's own schemas and those of the CRDs say, as a dry run of a cluster would find.
func TestManifestsConformToSchemas(t *testing.T) {
	files, err := filepath.Glob("../*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, failure := range conforms(t, filepath.Base(file), data) {
			t.Error(failure)
		}
	}
	for name, broken := range map[string]string{
		"an unknown field":         "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selektor: {a: b}}",
		"a wrong type":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: many, selector: {}, template: {}}",
		"a field that is missing":  "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}}",
		"a wrong duration":         "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rules: [{timeouts: {request: 1 day}}]}",
		"a trigger without a type": "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: a}, triggers: [{metadata: {}}]}",
		"a wrong interval":         "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: a}\nspec: {selector: {}, podMetricsEndpoints: [{interval: often}]}",
		"an unknown kind":          "apiVersion: v1\nkind: Deployment\nmetadata: {name: a}",
	} {
		if len(conforms(t, name, []byte(broken))) == 0 {
			t.Errorf("%s is taken", name)
		}
	}
}
