use super::*;
use crate::analyze::interleaved::Interleaved;

#[test]
fn a_tensor_is_interleaved_if_it_takes_its_share_of_whole_tiles() {
    // 10 tiles over 8 banks: two of them in the fullest.
    let ty = tiled(&[5, 32, 64]);
    assert!(Interleaved::new(&ty, 2 * 2048, 8).is_some());
    // Sharded, or another number of banks.
    assert_eq!(Interleaved::new(&ty, 10 * 2048, 8), None);
    assert_eq!(Interleaved::new(&ty, 2 * 2048, 4), None);
    assert_eq!(Interleaved::new(&ty, 2 * 2048, 0), None);
    // Tiles of different sizes, an unknown size, no tiles.
    assert_eq!(
        Interleaved::new(&TensorType { padded: Bytes::known(10 * 2048 + 5), ..ty.clone() }, 4096, 8),
        None
    );
    assert_eq!(Interleaved::new(&TensorType { padded: Bytes::UNKNOWN, ..ty.clone() }, 4096, 8), None);
    assert_eq!(Interleaved::new(&TensorType { layout: None, ..ty.clone() }, 4096, 8), None);
    assert_eq!(Interleaved::new(&tiled(&[0, 32, 32]), 0, 8), None);
}

#[test]
fn savings_are_whole_tiles_of_the_fullest_bank() {
    let ty = tiled(&[17, 1, 32]);
    let now = Interleaved::new(&ty, 3 * 2048, 8).unwrap();
    assert_eq!(now.saved_as(&ty, &[1, 17, 32]), Some(2 * 2048));
    assert_eq!(now.saved_as(&ty, &[9, 1, 32]), Some(2048));
    assert_eq!(now.saved_as(&ty, &[18, 1, 32]), None, "three tiles of the fullest bank still");
    assert_eq!(now.saved_as(&ty, &[25, 1, 32]), None, "one more");
    assert_eq!(now.saved_by_halves(), Some(3 * 1024));
    assert_eq!(now.saved_by_bfp8(), Some(3 * (2048 - 1088)));
    // f32 has tiles of 4096 bytes.
    let f32 = TensorType { padded: Bytes::known(17 * 4096), ..ty };
    assert_eq!(Interleaved::new(&f32, 3 * 4096, 8).unwrap().saved_by_bfp8(), None);
}
