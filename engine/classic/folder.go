package classic

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// modelSuffixes are the names that models' files usually end in.
var modelSuffixes = []string{".onnx", ".ubj", ".json", ".txt", ".cbm", ".model", ".bst"}

const (
	folderDepth  = 3  // of a Triton repository: model, version, file
	mostListed   = 3  // files that an error names
	mostInFolder = 64 // entries that are looked at
)

// folderFault says what to do where a folder stands in a model's place: a folder of models is listed file by file.
func folderFault(path string) error {
	var models []string
	seen, cut := 0, false
	_ = filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		inside, _ := filepath.Rel(path, at)
		switch {
		case err != nil || at == path:
			return nil //nolint:nilerr // what cannot be read is not listed
		case seen == mostInFolder:
			cut = true
			return fs.SkipAll
		case e.IsDir() && strings.Count(inside, string(filepath.Separator)) >= folderDepth-1:
			return fs.SkipDir
		}
		seen++
		if name := e.Name(); !e.IsDir() && slices.Contains(modelSuffixes, strings.ToLower(filepath.Ext(name))) && !strings.HasSuffix(name, ".golden.json") {
			models = append(models, inside)
		}
		return nil
	})
	const wayOut = "a classical model is one file of XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.json) or ONNX (.onnx); " +
		"give --classic NAME=FILE for each, or list files with names and versions under classic: of --config FILE"
	holds := "and in it is no file that looks like a model"
	switch {
	case seen == 0:
		holds = "and it is empty"
	case len(models) > mostListed:
		holds = fmt.Sprintf("with %s and %d more files that may be models", strings.Join(models[:mostListed], ", "), len(models)-mostListed)
	case len(models) > 0:
		holds = "with " + strings.Join(models, ", ")
	case cut:
		holds = fmt.Sprintf("and its first %d entries do not look like models", mostInFolder)
	}
	return fmt.Errorf("%s is a folder, %s; %s", path, holds, wayOut)
}
