// Makes garbage on four threads, so that the collector runs while they do.
import java.util.ArrayList;
import java.util.List;

public class Collect {
    public static void main(String[] arguments) throws Exception {
        long[] sums = new long[4];
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < sums.length; number++) {
            final int mine = number;
            threads.add(new Thread(() -> {
                long sum = 0;
                for (int round = 0; round < 60; round++) {
                    List<byte[]> kept = new ArrayList<>();
                    for (int i = 0; i < 60; i++) {
                        byte[] piece = new byte[4096 + 16 * i];
                        piece[i] = (byte) (round + i + mine);
                        kept.add(piece);
                    }
                    for (int i = 0; i < kept.size(); i++) {
                        sum = sum * 31 + kept.get(i)[i];
                    }
                }
                sums[mine] = sum;
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        for (long sum : sums) System.out.println(sum);
        System.exit(3);
    }
}
