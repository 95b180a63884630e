// Package asyncapi checks messages against an AsyncAPI description. It supports the part of JSON Schema that
// docs/asyncapi.yaml uses, and refuses everything else.
package asyncapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Description is an AsyncAPI description. It may be used by many goroutines.
type Description struct{ root map[string]any }

// Parse reads a description. The error says why the text is not a valid one.
func Parse(text []byte) (*Description, error) {
	d := &Description{}
	if err := yaml.Unmarshal(text, &d.root); err != nil {
		return nil, fmt.Errorf("asyncapi: %w", err)
	}
	if d.root["asyncapi"] != "3.0.0" {
		return nil, errors.New("asyncapi: it is not of version 3.0.0")
	}
	return d, nil
}

// At returns the object at a path of names, or nil if there is none.
func (d *Description) At(path ...string) map[string]any { return d.at(path...) }

// at returns the object at a path.
func (d *Description) at(path ...string) (found map[string]any) {
	found = d.root
	for _, name := range path {
		found, _ = found[name].(map[string]any)
	}
	return found
}

// Check returns an error unless a message of the given name matches the description.
func (d *Description) Check(name string, message []byte) error {
	payload, ok := d.at("components", "messages", name)["payload"].(map[string]any)
	if !ok {
		return fmt.Errorf("asyncapi: there is no message %s", name)
	}
	decoder := json.NewDecoder(bytes.NewReader(message))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return fmt.Errorf("asyncapi: %w", err)
	}
	if err := d.check(payload, v); err != nil {
		return fmt.Errorf("asyncapi: %s: %w in %s", name, err, message)
	}
	return nil
}

// check returns an error unless a value matches a schema.
func (d *Description) check(schema map[string]any, v any) error {
	for rule, want := range schema {
		var err error
		switch rule {
		case "$ref":
			err = d.check(d.at(strings.Split(strings.TrimPrefix(want.(string), "#/"), "/")...), v)
		case "type":
			err = checkType(want.(string), v)
		case "const":
			if v != want {
				err = fmt.Errorf("%v is not %v", v, want)
			}
		case "enum":
			err = checkEnum(want.([]any), v)
		case "oneOf":
			err = d.checkOneOf(want.([]any), v)
		case "properties":
			err = d.checkProperties(schema, want.(map[string]any), v)
		case "required":
			err = checkRequired(want.([]any), v)
		case "items", "prefixItems":
			err = d.checkItems(rule, want, v)
		case "pattern", "maxLength", "minimum", "maximum", "minItems", "maxItems":
			err = checkBound(rule, want, v)
		case "description", "additionalProperties":
		default:
			err = fmt.Errorf("rule %s is not known", rule)
		}
		if err != nil {
			return err
		}
	}
	if len(schema) == 0 {
		return errors.New("a schema is empty")
	}
	return nil
}

func checkType(want string, v any) error {
	is := "null"
	switch v := v.(type) {
	case map[string]any:
		is = "object"
	case []any:
		is = "array"
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case json.Number:
		if is = "number"; !strings.ContainsAny(v.String(), ".eE") {
			is = "integer"
		}
	}
	if is != want {
		return fmt.Errorf("%v is %s, not %s", v, is, want)
	}
	return nil
}

func checkEnum(all []any, v any) error {
	for _, one := range all {
		if fmt.Sprint(one) == fmt.Sprint(v) {
			return nil
		}
	}
	return fmt.Errorf("%v is none of %v", v, all)
}

func (d *Description) checkOneOf(all []any, v any) error {
	fits := 0
	for _, one := range all {
		if d.check(one.(map[string]any), v) == nil {
			fits++
		}
	}
	if fits != 1 {
		return fmt.Errorf("%v fits %d of the schemas that it may have", v, fits)
	}
	return nil
}

func (d *Description) checkProperties(schema, properties map[string]any, v any) error {
	members, _ := v.(map[string]any)
	for name, member := range members {
		of, known := properties[name].(map[string]any)
		if !known && schema["additionalProperties"] == false {
			return fmt.Errorf("member %s is not described", name)
		}
		if known {
			if err := d.check(of, member); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func checkRequired(names []any, v any) error {
	members, _ := v.(map[string]any)
	for _, name := range names {
		if _, has := members[name.(string)]; !has {
			return fmt.Errorf("member %s is missing", name)
		}
	}
	return nil
}

func (d *Description) checkItems(rule string, want, v any) error {
	items, _ := v.([]any)
	for i, item := range items {
		of, ok := want.(map[string]any)
		if rule == "prefixItems" {
			if i >= len(want.([]any)) {
				return nil
			}
			of, ok = want.([]any)[i].(map[string]any)
		}
		if !ok {
			return fmt.Errorf("%s is no schema", rule)
		}
		if err := d.check(of, item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// patterns caches compiled patterns by their text.
var patterns sync.Map

// compiled returns a compiled pattern.
func compiled(text string) *regexp.Regexp {
	if known, ok := patterns.Load(text); ok {
		return known.(*regexp.Regexp)
	}
	pattern := regexp.MustCompile(text)
	patterns.Store(text, pattern)
	return pattern
}

// checkBound checks a value against a bound, if the value has the type that the rule applies to.
func checkBound(rule string, want, v any) error {
	ok := true
	switch v := v.(type) {
	case string:
		switch rule {
		case "pattern":
			ok = compiled(want.(string)).MatchString(v)
		case "maxLength":
			ok = utf8.RuneCountInString(v) <= want.(int)
		}
	case json.Number:
		n, err := v.Int64()
		ok = err == nil && (rule != "minimum" || n >= int64(want.(int))) && (rule != "maximum" || n <= int64(want.(int)))
	case []any:
		ok = (rule != "minItems" || len(v) >= want.(int)) && (rule != "maxItems" || len(v) <= want.(int))
	}
	if !ok {
		return fmt.Errorf("%v is against %s %v", v, rule, want)
	}
	return nil
}
