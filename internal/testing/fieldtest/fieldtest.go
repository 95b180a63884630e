// Package fieldtest changes the fields of a struct one at a time, for tests that check that code which copies,
// encodes or compares the struct forgets no field.
package fieldtest

import (
	"reflect"
	"slices"
	"testing"
)

// Each calls f once for each field of v not in but, with a copy of v in which that field is changed.
func Each[T any](t *testing.T, v T, but []string, f func(name string, changed T)) {
	t.Helper()
	for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
		if !field.IsExported() || field.Anonymous || slices.Contains(but, field.Name) {
			continue
		}
		changed := v
		setOther(t, reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index))
		f(field.Name, changed)
	}
}

// setOther sets a field to a different value.
func setOther(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.Uint8:
		if field.Uint() == 1 {
			field.SetUint(2)
		} else {
			field.SetUint(1)
		}
	case reflect.Uint64, reflect.Uint32, reflect.Uint16:
		field.SetUint(field.Uint() + 1)
	case reflect.Int64, reflect.Int:
		field.SetInt(field.Int() + 1)
	case reflect.String:
		field.SetString(field.String() + "7")
	case reflect.Bool:
		field.SetBool(!field.Bool())
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), field.Len()+1, field.Len()+1))
	case reflect.Pointer:
		changed := reflect.New(field.Type().Elem())
		setOther(t, changed.Elem())
		field.Set(changed)
	case reflect.Struct:
		if lower := field.FieldByName("Lo"); lower.IsValid() { // a 128-bit number
			lower.SetUint(lower.Uint() + 1)
		} else {
			setOther(t, field.Field(0))
		}
	default:
		t.Fatalf("setOther does not support a %s", field.Type())
	}
}
