//! The network: it takes pixels as they are stored, and gives a score per class and pixel.
//!
//! ```text
//! 8 ────────────────────▶ cat ─▶ 8 ─▶ classes
//! └▶ 16 ─────────▶ cat ─▶ 16 ──┘      every second row of this picture has half the pixels
//!     └─▶ 32 ───────┘
//! ```

use tch::nn::{self, ConvConfig, Module as _, Path};
use tch::{Kind, Tensor};

/// The classes in the order of their numbers in the masks, with their colours in the picture.
pub(crate) const CLASSES: [(&str, [u8; 3]); 5] = [
    ("water", [50, 90, 180]),
    ("forest", [30, 110, 50]),
    ("grass", [150, 190, 90]),
    ("bare", [200, 170, 120]),
    ("town", [190, 60, 60]),
];
/// The number that stands for an unknown class in a mask, and for no measurement in a map.
pub(crate) const UNKNOWN: u8 = 255;
/// Rows and columns that the network takes are multiples of this.
pub(crate) const MULTIPLE: i64 = 4;

const WIDTH: i64 = 8;

#[derive(Debug)]
pub(crate) struct UNet {
    /// Means of the training pixels, `[1, bands, 1, 1]`. They are saved with the weights, so that a
    /// prediction needs no bundle.
    mean: Tensor,
    std: Tensor,
    down1: nn::Sequential,
    down2: nn::Sequential,
    middle: nn::Sequential,
    up2: nn::Sequential,
    up1: nn::Sequential,
    last: nn::Conv2D,
}

impl UNet {
    pub(crate) fn new(root: &Path<'_>, bands: i64) -> Self {
        let last = CLASSES.len() as i64;
        Self {
            mean: root.zeros_no_train("mean", &[1, bands, 1, 1]),
            std: root.ones_no_train("std", &[1, bands, 1, 1]),
            down1: block(&(root / "down1"), bands, WIDTH),
            down2: block(&(root / "down2"), WIDTH, 2 * WIDTH),
            middle: block(&(root / "middle"), 2 * WIDTH, 4 * WIDTH),
            up2: block(&(root / "up2"), 6 * WIDTH, 2 * WIDTH),
            up1: block(&(root / "up1"), 3 * WIDTH, WIDTH),
            last: nn::conv2d(root / "last", WIDTH, last, 1, ConvConfig::default()),
        }
    }

    /// Tells the network what is usual in each band.
    pub(crate) fn standardise(&mut self, mean: &[f32], std: &[f32]) {
        self.mean.copy_(&Tensor::from_slice(mean).view_as(&self.mean));
        self.std.copy_(&Tensor::from_slice(std).view_as(&self.std));
    }

    /// Scores `[n, classes, height, width]` of `pixels`, `[n, bands, height, width]`.
    pub(crate) fn forward(&self, pixels: &Tensor) -> Tensor {
        let x = (pixels.to_kind(Kind::Float) - &self.mean) / &self.std;
        let fine = self.down1.forward(&x);
        let coarse = self.down2.forward(&fine.max_pool2d_default(2));
        let middle = self.middle.forward(&coarse.max_pool2d_default(2));
        let coarse = self.up2.forward(&beside(&middle, &coarse));
        self.last.forward(&self.up1.forward(&beside(&coarse, &fine)))
    }
}

/// Two convolutions. The names are those that PyTorch gives `Sequential(Conv2d, ReLU, …)`, so
/// `earth.py` reads the same weights.
fn block(path: &Path<'_>, from: i64, to: i64) -> nn::Sequential {
    let same = ConvConfig { padding: 1, ..ConvConfig::default() };
    nn::seq()
        .add(nn::conv2d(path / "0", from, to, 3, same))
        .add_fn(Tensor::relu)
        .add(nn::conv2d(path / "2", to, to, 3, same))
        .add_fn(Tensor::relu)
}

/// `small` at twice its size, and what was seen at that size on the way down.
fn beside(small: &Tensor, large: &Tensor) -> Tensor {
    let (_, _, height, width) = large.size4().unwrap_or_default();
    Tensor::cat(&[&small.upsample_nearest2d([height, width], None, None), large], 1)
}
