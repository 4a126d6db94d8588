package gbdt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Category is the number that stands for a category's name in a column, as the library that wrote the file has it from a data frame.
// A name that was not in the training data is missing for LightGBM, and an error for XGBoost, as it is there.
func (m *Model) Category(feature int, name string) (float64, error) {
	if feature >= len(m.numbers) || m.numbers[feature] == nil {
		return 0, errors.New("the model's file names no categories of it: send numbers")
	}
	if n, known := m.numbers[feature][name]; known {
		return float64(n), nil
	}
	if strings.HasPrefix(m.ensemble.Format, "xgboost") {
		return 0, fmt.Errorf("%q was no category of it in the training data, which XGBoost refuses: send null for a missing value", shorten(name))
	}
	return math.NaN(), nil
}

// numberCategories indexes the names of categories by column; nil where there are none.
func numberCategories(names [][]string) []map[string]int {
	if names == nil {
		return nil
	}
	all := make([]map[string]int, len(names))
	for f, list := range names {
		for i, name := range list {
			if all[f] == nil {
				all[f] = make(map[string]int, len(list))
			}
			all[f][name] = i
		}
	}
	return all
}

// readCategoryNames reads the categories of a data frame, which XGBoost 3.1 and later keep: by feature nothing, texts, or numbers.
func (r *xgboostReader) readCategoryNames(model object) error {
	cats, err := model.object("cats")
	if err != nil {
		return nil //nolint:nilerr // an older file names none
	}
	enc, err := cats.list("enc")
	if err != nil || len(enc) == 0 {
		return nil //nolint:nilerr // nothing is named
	}
	if len(enc) != r.ensemble.Features {
		return fmt.Errorf("cats: enc has %d elements, for %d features", len(enc), r.ensemble.Features)
	}
	names := make([][]string, len(enc))
	for f, v := range enc {
		e, _ := v.(object)
		values, err := e.numbers("values")
		if err != nil {
			return fmt.Errorf("cats: feature %d: %w", f, err)
		}
		if !e.has("offsets") {
			for _, x := range values {
				names[f] = append(names[f], strconv.FormatFloat(x, 'f', -1, 64))
			}
			continue
		}
		offsets, err := e.numbers("offsets")
		if err == nil && slices.ContainsFunc(values, func(x float64) bool { return x < 0 || x > 127 }) {
			r.ensemble.Notes = append(r.ensemble.Notes, fmt.Sprintf("the file has the names of feature %d's categories cut off, as XGBoost saves those beyond ASCII: "+
				"send these categories by their numbers", f))
			continue
		}
		if err == nil {
			names[f], err = cutTexts(values, offsets)
		}
		if err != nil {
			return fmt.Errorf("cats: feature %d: %w", f, err)
		}
	}
	r.ensemble.Categories = names
	return nil
}

// cutTexts cuts bytes into texts.
func cutTexts(values, offsets []float64) (texts []string, err error) {
	text := make([]byte, len(values))
	for i, x := range values {
		text[i] = byte(x)
	}
	for i := 1; i < len(offsets); i++ {
		from, ok1 := whole(offsets[i-1])
		to, ok2 := whole(offsets[i])
		if !ok1 || !ok2 || from < 0 || to < from || int(to) > len(text) {
			return nil, fmt.Errorf("offsets %v and %v of %d bytes", offsets[i-1], offsets[i], len(text))
		}
		texts = append(texts, string(text[from:to]))
	}
	return texts, nil
}

// readCategoryNames reads the line behind the trees that has the categories of a data frame, in the order of its categorical columns.
func (r *lightgbmReader) readCategoryNames(infos []byte) error {
	_, line, found := bytes.Cut(r.rest, []byte("\npandas_categorical:"))
	if !found {
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	document, err := parseJSON(bytes.TrimSpace(line), 64)
	if err != nil {
		return fmt.Errorf("pandas_categorical: %w", err)
	}
	lists, _ := document.([]any)
	var columns []int // that are split by category
	for f, info := range bytes.Fields(infos) {
		if info[0] != '[' && string(info) != "none" {
			columns = append(columns, f)
		}
	}
	e := r.ensemble
	switch {
	case len(lists) == 0:
		return nil
	case len(lists) != len(columns):
		e.Notes = append(e.Notes, fmt.Sprintf("the file names the categories of %d columns and has %d categorical ones, so that which is which cannot be told: "+
			"send categories by their numbers", len(lists), len(columns)))
		return nil
	case columns[len(columns)-1] >= e.Features:
		return errors.New("feature_infos has more elements than there are features")
	}
	e.Categories = make([][]string, e.Features)
	for i, list := range lists {
		switch list := list.(type) {
		case []float64:
			for _, x := range list {
				e.Categories[columns[i]] = append(e.Categories[columns[i]], strconv.FormatFloat(x, 'f', -1, 64))
			}
		case []any:
			for _, v := range list {
				e.Categories[columns[i]] = append(e.Categories[columns[i]], fmt.Sprint(v))
			}
		}
	}
	return nil
}
