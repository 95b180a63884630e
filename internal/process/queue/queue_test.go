package queue

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// item is larger than a word, so that few items reach keepBytes.
type item struct {
	n uint64
	_ [5]uint64
}

// TestAQueueIsFirstInFirstOut pushes and pops items while the queue grows and shrinks.
func TestAQueueIsFirstInFirstOut(t *testing.T) {
	var q Queue[item]
	next, want := uint64(0), uint64(0)
	for round := range 1000 {
		for range round % 37 {
			q.Push(item{n: next})
			next++
		}
		for range round % 41 {
			front := q.Front()
			require.Equal(t, want < next, front != nil)
			i, ok := q.Pop()
			require.Equal(t, want < next, ok)
			if ok {
				require.Equal(t, want, i.n)
				want++
			}
		}
		require.Equal(t, int(next-want), q.Len())
		require.Len(t, q.Items(), q.Len())
	}
	for want < next {
		require.Equal(t, want, q.Front().n)
		_, ok := q.Pop()
		require.True(t, ok)
		want++
	}
	require.LessOrEqual(t, cap(q.items)*int(unsafe.Sizeof(item{})), keepBytes)
	q.Shrink()
	require.Nil(t, q.items)
}

// The memory of a queue that stays short does not grow with the number of items that pass through it, and a long
// queue that is emptied does not keep its memory.
func TestMemoryOfAQueueIsBounded(t *testing.T) {
	var q Queue[int]
	for i := range 100 {
		q.Push(i)
	}
	for i := range 100_000 {
		q.Push(i)
		q.Pop()
		require.LessOrEqual(t, cap(q.items), 1024)
	}
	for i := range 100_000 {
		q.Push(i)
	}
	for q.Len() > 0 {
		q.Pop()
	}
	require.Nil(t, q.items)
}

// The queue keeps no reference to an item that was removed, whether Pop removed it or Push moved the others.
func TestAQueueForgetsItsItems(t *testing.T) {
	var q Queue[*int]
	for i := range 1000 {
		q.Push(&i)
		if i%3 > 0 {
			q.Pop()
		}
		for n, p := range q.items[:cap(q.items)] {
			if n < q.head || n >= len(q.items) {
				require.Nil(t, p)
			}
		}
	}
}

// Items changed through Front keep their place.
func TestTheFrontCanBeChanged(t *testing.T) {
	var q Queue[int]
	require.Nil(t, q.Front())
	q.Push(1)
	q.Push(2)
	*q.Front() = 7
	require.Equal(t, []int{7, 2}, q.Items())
}

func BenchmarkPushAndPop(b *testing.B) {
	var q Queue[item]
	for i := range 1000 {
		q.Push(item{n: uint64(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		q.Push(item{})
		q.Pop()
	}
}
