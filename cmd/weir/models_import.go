package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/console"
	"weir/internal/server/folder"
	"weir/internal/server/local"
	"weir/internal/unit"
	"weir/router/registry"
)

// importFlags say what becomes part of a version beside its weights.
type importFlags struct {
	files    map[registry.Role]*string
	docs     []string
	sampling string
	safety   string
	metrics  []string
	lineage  registry.Lineage
	by, note string
}

func newModelsImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE NAME[:TAG]",
		Short: "Make a version of a model file and what belongs to it, and point an alias at it",
		Long: "Copy a GGUF file (the first of its files, where it is split) or a classical model into a new version, with\n" +
			"everything else that decides its answers, and point NAME:TAG at it. The same files and flags give the\n" +
			"same digest on every machine. A killed import leaves nothing that can be seen.",
		Example: "  weir models import llama-Q4_K_M.gguf chat:v1 --template chat.jinja --sampling sampling.json\n" +
			"  weir models import churn.ubj churn:7 --golden churn.golden.json --features churn.features.yml --metric auc=0.91 --approved-by board",
		Args: exactly(2),
	}
	f := addImportFlags(cmd)
	onModels(cmd, func(ctx context.Context, m *modelsVerb, args []string) error {
		im, err := f.build(args[0], args[1])
		if err != nil {
			return err
		}
		var v registry.Version
		err = m.progress("importing", im.Name, func(p registry.Progress) error {
			im.Progress = p
			v, err = m.registry.Import(ctx, im)
			return err
		})
		if v.Digest == "" {
			return err
		}
		return errors.Join(err, m.print(v, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s is %s, %s\n", im.Name, v.Digest, unit.Bytes(v.Size))
			return err
		}))
	})
	return cmd
}

func addImportFlags(cmd *cobra.Command) *importFlags {
	o := &importFlags{files: make(map[registry.Role]*string)}
	f := cmd.Flags()
	f.SortFlags = false
	for _, file := range []struct {
		role  registry.Role
		usage string
	}{
		{registry.Template, "chat template that replaces the model's own"}, {registry.Tokenizer, "tokenizer that is kept with the model"},
		{registry.Golden, "rows with the outputs that must come out, of a classical model"},
		{registry.Features, "manifest of where features come from, of a classical model"},
		{registry.Profile, "profile that drift is measured against, of a classical model"},
	} {
		o.files[file.role] = f.String(string(file.role), "", "file: "+file.usage)
	}
	f.StringArrayVar(&o.docs, "doc", nil, "file: a licence or another document; repeat for several")
	f.StringVar(&o.sampling, "sampling", "", "file: defaults of requests as JSON: temperature, top_p, top_k, min_p, repetition_penalty, max_tokens, stop, system")
	f.StringVar(&o.safety, "safety", "", "file: safety policy as JSON")
	f.StringArrayVar(&o.metrics, "metric", nil, "NAME=NUMBER, measured offline; repeat for several")
	f.StringVar(&o.lineage.Source, "source", "", "where the weights come from, such as a URL")
	f.StringVar(&o.lineage.Revision, "revision", "", "revision of the source")
	f.StringVar(&o.lineage.Base, "base", "", "model that was trained on")
	f.StringArrayVar(&o.lineage.Datasets, "dataset", nil, "what the model was trained with; repeat for several")
	f.StringVar(&o.lineage.License, "license", "", "licence as SPDX has it")
	f.StringVar(&o.by, "approved-by", "", "who allowed this version")
	f.StringVar(&o.note, "approval-note", "", "why")
	return o
}

// build is the version that arguments and flags describe.
func (o *importFlags) build(path, name string) (registry.Import, error) {
	im := registry.Import{Name: name}
	if ref, err := registry.ParseRef(name); err != nil {
		return im, &console.UsageError{Err: err, Hint: "use: weir models import FILE NAME:TAG"}
	} else if ref.Digest == "" {
		im.Name = ref.String()
	}
	var err error
	if im.Files, im.Facts, err = weightsOf(path); err != nil {
		return im, err
	}
	for role, file := range o.files {
		if *file != "" {
			im.Files = append(im.Files, registry.Source{Role: role, Path: *file})
		}
	}
	for _, file := range o.docs {
		im.Files = append(im.Files, registry.Source{Role: registry.Doc, Path: file})
	}
	im.Record, err = o.record()
	return im, err
}

func (o *importFlags) record() (rec registry.Record, err error) {
	data, err := readFileFlag("sampling", o.sampling)
	if err == nil && data != nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err = dec.Decode(&rec.Sampling); err != nil {
			err = fmt.Errorf("--sampling %s: %w", o.sampling, err)
		}
	}
	if err != nil {
		return rec, err
	}
	if data, err = readFileFlag("safety", o.safety); err != nil {
		return rec, err
	}
	if data != nil && !json.Valid(data) {
		return rec, fmt.Errorf("--safety %s: it is no JSON", o.safety)
	}
	rec.Safety = data
	for _, text := range o.metrics {
		name, number, _ := strings.Cut(text, "=")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || name == "" || value-value != 0 {
			return rec, &console.UsageError{Err: fmt.Errorf("--metric %q: it takes NAME=NUMBER", text), Hint: ""}
		}
		if rec.Metrics == nil {
			rec.Metrics = make(map[string]float64)
		}
		rec.Metrics[name] = value
	}
	if l := o.lineage; cmp.Or(l.Source, l.Revision, l.Base, l.License) != "" || len(l.Datasets) > 0 {
		rec.Lineage = &l
	}
	if o.by != "" {
		rec.Approval = &registry.Approval{By: o.by, At: time.Now().UTC().Truncate(time.Second), Note: o.note}
	} else if o.note != "" {
		return rec, &console.UsageError{Err: errors.New("--approval-note without --approved-by"), Hint: ""}
	}
	return rec, nil
}

// weightsOf are the files of a model and what is known of it. Files that weir could not read are refused here, not when
// they are served.
func weightsOf(path string) ([]registry.Source, registry.Facts, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		if err == nil {
			err = fmt.Errorf("%s is not a file", path)
		}
		return nil, registry.Facts{}, fmt.Errorf("%w; give the path of a model file", err)
	}
	if isClassic(path) {
		if _, err := inspectClassic(path); err != nil {
			return nil, registry.Facts{}, err
		}
		format := strings.TrimPrefix(filepath.Ext(path), ".")
		return []registry.Source{{Role: registry.Weights, Path: path}}, registry.Facts{Format: cmp.Or(format, "classic")}, nil
	}
	f, err := local.Open(path)
	if err != nil {
		return nil, registry.Facts{}, err
	}
	defer f.Close()
	var files []registry.Source
	for _, part := range splitPaths(path) {
		files = append(files, registry.Source{Role: registry.Weights, Path: part})
	}
	return files, folder.FactsOf(f), nil
}

var splitPattern = regexp.MustCompile(`^(.*-)00001(-of-([0-9]{5})\.gguf)$`)

// splitPaths are the files of a model whose first file has been opened with all others.
func splitPaths(path string) []string {
	m := splitPattern.FindStringSubmatch(path)
	if m == nil {
		return []string{path}
	}
	count, _ := strconv.Atoi(m[3]) // it has five digits
	paths := make([]string, count)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s%05d%s", m[1], i+1, m[2])
	}
	return paths
}
