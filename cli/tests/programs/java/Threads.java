/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads of a Java virtual machine: a pool, an overflow that is caught, named threads.
 *
 * Invariant: the output depends on nothing but this text.
 */
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Threads {
    static int depth;

    static int endless(int from) {
        depth++;
        return endless(from + 1) + 1;
    }

    static String overflow() {
        try {
            return "no end " + endless(0);
        } catch (StackOverflowError error) {
            return depth > 100 ? "overflow caught" : "overflow at once";
        }
    }

    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(6);
        List<Future<Long>> sums = new ArrayList<>();
        for (int at = 0; at < 60; at++) {
            final long from = at * 1000L;
            sums.add(pool.submit(() -> {
                long sum = 0;
                List<Object> garbage = new ArrayList<>();
                for (long number = from; number < from + 1000; number++) {
                    garbage.add(new byte[1000]);
                    sum += number;
                }
                return sum;
            }));
        }
        long sum = 0;
        for (Future<Long> one : sums)
            sum += one.get();
        pool.shutdown();
        System.out.println("sum " + sum);
        Thread named = new Thread(null, () -> System.out.println(overflow()), "deep", 1 << 20);
        named.start();
        named.join();
        Object nothing = null;
        try {
            nothing.hashCode();
        } catch (NullPointerException error) {
            System.out.println("null caught");
        }
        System.exit(17);
    }
}
